"""A Django site in one file, to try the config beside it: the admin's login form, its static files, and an upload.

    export SITE_FOLDER=/srv/mysite SITE_SECRET=...
    python3 app.py migrate && python3 app.py collectstatic --noinput && python3 app.py createsuperuser
    gunicorn --workers 2 --bind unix:/run/mysite/gunicorn.sock app:application
"""
import os
import sys

from django.conf import settings

FOLDER = os.environ["SITE_FOLDER"]

settings.configure(
    SECRET_KEY=os.environ["SITE_SECRET"],
    ALLOWED_HOSTS=["www.example.com"],
    ROOT_URLCONF=__name__,
    # Weir ends TLS and says so in this field; what a client sends in it never arrives.
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    SESSION_COOKIE_SECURE=True,
    CSRF_COOKIE_SECURE=True,
    # Of Django 4 and later; `Host` arrives as the client sent it, so that no further origin is needed.
    CSRF_TRUSTED_ORIGINS=["https://www.example.com"],
    STATIC_URL="/static/",
    STATIC_ROOT=os.path.join(FOLDER, "static"),
    MEDIA_ROOT=os.path.join(FOLDER, "media"),
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.path.join(FOLDER, "db.sqlite3")}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.messages",
                    "django.contrib.sessions", "django.contrib.staticfiles"],
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.contrib.sessions.middleware.SessionMiddleware",
                "django.middleware.csrf.CsrfViewMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]}}],
)

import django
django.setup()

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.core.files.storage import default_storage
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.urls import path

application = get_wsgi_application()


def about(request):
    """What Django knows of the client."""
    return JsonResponse({"secure": request.is_secure(), "url": request.build_absolute_uri(), "client": request.META.get("HTTP_X_FORWARDED_FOR")})


@login_required(login_url="/admin/login/")
def upload(request):
    """A form with a file, and what becomes of it."""
    if request.method == "POST":
        file = request.FILES["file"]
        return JsonResponse({"stored": default_storage.save(file.name, file), "size": file.size})
    return HttpResponse(f'<form method="post" enctype="multipart/form-data"><input type="hidden" name="csrfmiddlewaretoken" '
                        f'value="{get_token(request)}"><input type="file" name="file"><button>Upload</button></form>')


urlpatterns = [path("", about), path("upload/", upload), path("admin/", admin.site.urls)]

if __name__ == "__main__":
    from django.core.management import execute_from_command_line
    execute_from_command_line(sys.argv)
